//! The local control plane and what the end-to-end tests share.
