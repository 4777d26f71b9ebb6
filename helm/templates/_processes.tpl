{{/* The processes of a release: the gateway's own pod, pods that serve (`web`) and pods that keep (`keepers`). */}}

{{- define "gateway.isDivided" -}}
{{- if or .Values.web.replicas .Values.keepers.replicas -}}true{{- end -}}
{{- end -}}

{{/* What is to be known of a process, as JSON: its `name`, the arguments of its command, its resources, whether it `serves`.
Give `root`, and `process`: "gateway", "web" or "keeper". */}}
{{- define "gateway.process" -}}
{{- $values := .root.Values -}}
{{- $roles := list -}}
{{- if eq .process "web" -}}
{{- $roles = list "serve" -}}
{{- else if eq .process "keeper" -}}
{{- $roles = list "keep" -}}
{{- else if include "gateway.isDivided" .root -}}
{{- $roles = concat (list "receive") (ternary (list) (list "serve") (gt (int $values.web.replicas) 0)) (ternary (list) (list "keep") (gt (int $values.keepers.replicas) 0)) -}}
{{- end -}}
{{- $arguments := list -}}
{{- range $roles -}}
{{- $arguments = concat $arguments (list "--role" .) -}}
{{- end -}}
{{- $resources := get (dict "gateway" $values.resources "web" $values.web.resources "keeper" $values.keepers.resources) .process -}}
{{- $suffix := get (dict "gateway" "" "web" "-web" "keeper" "-keeper") .process -}}
{{- dict "suffix" $suffix "arguments" $arguments "resources" $resources "serves" (or (not $roles) (has "serve" $roles)) | toJson -}}
{{- end -}}

{{/* The name of a process: give `root` and `suffix`. */}}
{{- define "gateway.process.fullname" -}}
{{- printf "%s%s" (include "gateway.fullname" .root | trunc 45 | trimSuffix "-") .suffix -}}
{{- end -}}

{{/* Each process has a name of its own: the StatefulSet and the Services select by name and instance. */}}
{{- define "gateway.process.selectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s%s" (default .root.Chart.Name .root.Values.nameOverride | trunc 56 | trimSuffix "-") .suffix }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "gateway.process.labels" -}}
{{ include "gateway.process.selectorLabels" . }}
{{ include "gateway.componentLabels" .root }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* What all processes of the gateway have in common, apart from the pipeline. */}}
{{- define "gateway.componentLabels" -}}
app.kubernetes.io/component: gateway
app.kubernetes.io/part-of: {{ include "gateway.fullname" . }}
{{- end -}}

{{/* What would come up and not work. */}}
{{- define "gateway.divided.check" -}}
{{- $settings := .Values.settings -}}
{{- $needed := dict "content" "url" "journal" "archive_url" -}}
{{- if eq .Values.assembler "spark" -}}
{{- $_ := set $needed "tables" "url" -}}
{{- end -}}
{{- range $section, $key := $needed -}}
{{- if not (dig $section $key "" $settings) -}}
{{- fail (printf "web.replicas and keepers.replicas need settings.%s.%s: a place that all pods reach" $section $key) -}}
{{- end -}}
{{- end -}}
{{- if not (include "gateway.mayHavePostgresql" .) -}}
{{- fail "web.replicas and keepers.replicas need settings.catalog.url of a PostgreSQL (or url_file, or ATTACHMENT_GATEWAY_CATALOG__URL in env): pods share no SQLite file" -}}
{{- end -}}
{{- end -}}

{{/* The pod of a process. Give `root`, and `process`: "gateway", "web" or "keeper". */}}
{{- define "gateway.pod" -}}
{{- $process := include "gateway.process" . | fromJson -}}
{{- $_ := set $process "root" .root -}}
{{- $isStateful := eq .process "gateway" -}}
{{- with .root -}}
metadata:
  labels:
    {{- include "gateway.process.labels" $process | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "gateway.toml" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "gateway.serviceAccountName" . }}
  # Only for the Lease.
  automountServiceAccountToken: {{ and $isStateful (not (empty (include "gateway.standsBy" .))) }}
  # Kubernetes would add variables such as ATTACHMENT_GATEWAY_SERVICE_HOST, which look like settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: gateway
      image: {{ include "gateway.image" (dict "image" .Values.image "root" .) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: {{ concat (list "serve" "--config" "/etc/gateway/gateway.toml") $process.arguments | toJson }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      {{- with (include "gateway.env" . | fromJson).all }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: http
          containerPort: 8080
          protocol: TCP
      startupProbe:
        httpGet:
          path: /health/live
          port: http
        {{- toYaml .Values.startupProbe | nindent 8 }}
      livenessProbe:
        httpGet:
          path: /health/live
          port: http
        {{- toYaml .Values.livenessProbe | nindent 8 }}
      readinessProbe:
        httpGet:
          path: {{ ternary .Values.readinessProbe.path "/health/ready" $process.serves }}
          port: http
        {{- toYaml (omit .Values.readinessProbe "path") | nindent 8 }}
      {{- if and $process.serves (not $isStateful) }}
      # The Service stops sending requests before the process stops to answer.
      lifecycle:
        preStop:
          sleep:
            seconds: 5
      {{- end }}
      resources:
        {{- toYaml $process.resources | nindent 8 }}
      volumeMounts:
        - name: data
          mountPath: /var/lib/gateway
        - name: config
          mountPath: /etc/gateway
          readOnly: true
        - name: temporary
          mountPath: /tmp
        {{- if .Values.existingSecret }}
        - name: secrets
          mountPath: /run/secrets/gateway
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: data
      {{- if and $isStateful .Values.persistence.enabled }}
      persistentVolumeClaim:
        claimName: {{ default (include "gateway.fullname" .) .Values.persistence.existingClaim }}
      {{- else }}
      emptyDir: {}
      {{- end }}
    - name: config
      configMap:
        name: {{ include "gateway.fullname" . }}
    - name: temporary
      emptyDir: {}
    {{- with .Values.existingSecret }}
    - name: secrets
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.affinity }}
  affinity:
    {{- toYaml .Values.affinity | nindent 4 }}
  {{- else if or (not $isStateful) (include "gateway.standsBy" .) }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "gateway.process.selectorLabels" $process | nindent 16 }}
  {{- end }}
{{- end -}}
{{- end -}}
