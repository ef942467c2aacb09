module grayrollout.dev/e2e/node

go 1.26.0
