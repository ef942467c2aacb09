{{/*
One file of config/, in the release's namespace. files/ leads to config/ and crds/, so that there is
one source of every object.
*/}}
{{- define "grayrollout.file" -}}
{{- $text := .root.Files.Get (printf "files/%s" .path) -}}
{{- if not $text -}}
{{- fail (printf "files/%s is missing from the chart" .path) -}}
{{- end -}}
{{- $text | replace "grayrollout-system" .root.Release.Namespace -}}
{{- end -}}

{{- define "grayrollout.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}
