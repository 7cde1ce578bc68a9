{{/* Which of the values of sources says where they are: secret, configMap or inline. Empty: there are none. */}}
{{- define "postrider.sources" -}}
{{- $given := list -}}
{{- range $key := list "secret" "configMap" "inline" -}}
{{- if index $.Values.sources $key }}{{ $given = append $given $key }}{{ end -}}
{{- end -}}
{{- if gt (len $given) 1 -}}
{{- fail (printf "sources has %s: give one, because a source of one would replace that of another with the same file" (join " and " $given)) -}}
{{- end -}}
{{- join "" $given -}}
{{- end -}}

{{/* Whether there is a database of the desk. */}}
{{- define "postrider.desk" -}}
{{- if or .Values.database.existingSecret (default dict .Values.config.database).url }}yes{{ end -}}
{{- end -}}

{{/* What no schema can say of sources. */}}
{{- define "postrider.checkSources" -}}
{{- $sources := include "postrider.sources" . -}}
{{- if $sources -}}
{{- if and .Values.database.existingSecret .Values.database.passwordKey -}}
{{- fail "database.passwordKey: with sources PGPASSWORD would be tried at the database of each source as well; mount the password by secretFiles, and name its file in config.database.password_file" -}}
{{- end -}}
{{- if not (include "postrider.desk" .) -}}
{{- range $name, $part := .Values.deployments -}}
{{- if and $part.enabled (or $part.api (ne (join "," $part.roles) "relay")) -}}
{{- fail (printf "deployments.%s has the API, or another role than relay, which needs a desk: set database.existingSecret, or use values-sources.yaml, which leaves it out" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.migration.roles (not (include "postrider.desk" .)) -}}
{{- fail "migration.roles: the chart makes the roles in the database of the desk, and there is none; postrider migrate roles --apply makes them in that of a source" -}}
{{- end -}}
{{- $names := dict -}}
{{- range .Values.sources.inline -}}
{{- if hasKey $names .name -}}
{{- fail (printf "sources.inline has two sources called %s: each database has a name of its own" .name) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- end -}}
{{- else if .Values.migration.sources.secret -}}
{{- fail "migration.sources.secret is set, and sources names none: set sources.secret, sources.configMap or sources.inline" -}}
{{- end -}}
{{- if and .Values.migration.sources.canary (not .Values.migration.sources.secret) -}}
{{- fail "migration.sources.canary is the source to begin with: set migration.sources.secret, without which no source is migrated" -}}
{{- end -}}
{{- end -}}

{{/* The settings file. */}}
{{- define "postrider.settings" -}}
{{ toYaml .Values.config }}
{{- if include "postrider.sources" . }}
sources_dir: /etc/postrider/sources
{{- end }}
{{- end -}}

{{/* The sources of inline as files, each by its name. Keys of stringData would stay in the Secret when they go from here. */}}
{{- define "postrider.sourceFiles" -}}
type: Opaque
data:
  {{- range .Values.sources.inline }}
  {{ .name }}.yaml: {{ toYaml . | b64enc }}
  {{- end }}
{{- end -}}

{{/* A folder and never a subPath, in which the kubelet changes nothing. */}}
{{- define "postrider.sourcesMount" -}}
{{- if include "postrider.sources" . }}
- name: sources
  mountPath: /etc/postrider/sources
  readOnly: true
{{- end }}
{{- end -}}

{{/* From a dict of root and made, the Secret that the chart makes of inline. */}}
{{- define "postrider.sourcesVolume" -}}
{{- $kind := include "postrider.sources" .root }}
{{- if eq $kind "configMap" }}
- name: sources
  configMap:
    name: {{ .root.Values.sources.configMap }}
{{- else if $kind }}
- name: sources
  secret:
    secretName: {{ default .made .root.Values.sources.secret }}
    defaultMode: 0440
{{- end }}
{{- end -}}
