{{- define "rollcall.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains "rollcall" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-rollcall" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "rollcall.selector" -}}
app.kubernetes.io/name: rollcall
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rollcall.labels" -}}
{{ include "rollcall.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "rollcall.subject" -}}
kind: ServiceAccount
name: {{ include "rollcall.fullname" . }}
namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "rollcall.configuration" -}}
{{- if .Values.configuration }}{{ toYaml .Values.configuration }}
{{- else -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  {{- toYaml .Values.clientConnection | nindent 2 }}
leaderElection:
  leaderElect: true
  resourceNamespace: {{ .Release.Namespace }}
  resourceName: {{ include "rollcall.fullname" . }}
profiles:
{{- range .Values.schedulerNames }}
- schedulerName: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The log's name where it is a stream: the files of the secret are parameters of it. */ -}}
{{- define "rollcall.stream" -}}
{{- with .Values.log.stream -}}
{{ .url }}?replicas={{ .replicas }}&patience={{ .patience }}
{{- with .nkey }}&nkey=/etc/rollcall-nats/{{ . }}{{ end }}
{{- with .creds }}&creds=/etc/rollcall-nats/{{ . }}{{ end }}
{{- with .ca }}&ca=/etc/rollcall-nats/{{ . }}{{ end }}
{{- with .cert }}&cert=/etc/rollcall-nats/{{ . }}{{ end }}
{{- with .key }}&key=/etc/rollcall-nats/{{ . }}{{ end }}
{{- end }}
{{- end }}
