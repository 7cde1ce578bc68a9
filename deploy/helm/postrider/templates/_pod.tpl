{{/* A user without rights; the image needs no file to write to. */}}
{{- define "postrider.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "postrider.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The database's address and password, from a dict of root and login. A Secret has them, or the settings the address;
passwordFile is for an installation without a settings file. */}}
{{- define "postrider.databaseEnv" -}}
{{- $settings := default dict .root.Values.config.database -}}
{{- if and .login.existingSecret .login.urlKey }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .login.existingSecret }}
      key: {{ .login.urlKey }}
{{- else if $settings.url }}
- name: DATABASE_URL
  value: {{ $settings.url | quote }}
{{- else if or (include "postrider.desk" .root) (not (include "postrider.sources" .root)) }}
{{- fail "no database: set database.existingSecret to a Secret whose key database.urlKey has the connection string, or config.database.url to one without a password, or sources and no desk" }}
{{- end }}
{{- if and .login.existingSecret .login.passwordKey }}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .login.existingSecret }}
      key: {{ .login.passwordKey }}
{{- end }}
{{- with .passwordFile }}
- name: DATABASE_PASSWORD_FILE
  value: {{ . | quote }}
{{- end }}
{{ include "postrider.extraEnv" .root }}
{{- end -}}

{{- define "postrider.extraEnv" -}}
{{- with .Values.extraEnv }}
{{- toYaml . }}
{{- end }}
{{- end -}}

{{- define "postrider.secretMounts" -}}
{{- range $i, $file := .Values.secretFiles }}
- name: secret-{{ $i }}
  mountPath: {{ $file.mountPath }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* 0440: the group is that of the pod, and PostgreSQL's client refuses keys that more people may read. */}}
{{- define "postrider.secretVolumes" -}}
{{- range $i, $file := .Values.secretFiles }}
- name: secret-{{ $i }}
  secret:
    secretName: {{ $file.secret }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "postrider.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
