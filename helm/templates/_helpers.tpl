{{/* At most 52 characters: Kubernetes labels the pods of a StatefulSet with its name and up to 11 more. */}}
{{- define "gateway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 56 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gateway.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gateway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Not empty if the chart makes /metrics readable without a key: if neither `settings.http.public` nor a token is given. */}}
{{- define "gateway.publicMetrics" -}}
{{- if not (or (hasKey (.Values.settings.http | default dict) "public") .Values.serviceMonitor.tokenSecret.name) -}}true{{- end -}}
{{- end -}}

{{/* The image of the gateway or of the pipeline: by its digest if there is one, else by its tag. */}}
{{- define "gateway.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The environment variables of the gateway and of the pipeline, a list in JSON under the key `all`. */}}
{{- define "gateway.env" -}}
{{- $own := list -}}
{{- if and .Values.traces.enabled .Values.traces.endpoint -}}
{{- $own = append $own (dict "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" .Values.traces.endpoint) -}}
{{- end -}}
{{- dict "all" (concat $own .Values.env | default list) | toJson -}}
{{- end -}}

{{/* Not empty if a second gateway stands by. */}}
{{- define "gateway.standsBy" -}}
{{- if eq (toString .Values.replicas) "2" -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the catalog may be a PostgreSQL. */}}
{{- define "gateway.mayHavePostgresql" -}}
{{- $variables := list -}}
{{- range .Values.env -}}
{{- $variables = append $variables .name -}}
{{- end -}}
{{- $url := dig "catalog" "url" "" .Values.settings -}}
{{- if and (not (hasPrefix "sqlite" $url)) (or $url (dig "catalog" "url_file" "" .Values.settings) (has "ATTACHMENT_GATEWAY_CATALOG__URL" $variables)) -}}true{{- end -}}
{{- end -}}

{{- define "gateway.standby.check" -}}
{{- if not .Values.persistence.enabled -}}
{{- fail "replicas 2 needs persistence.enabled: there is no volume to share" -}}
{{- end -}}
{{- if and (not .Values.persistence.existingClaim) (not (has "ReadWriteMany" .Values.persistence.accessModes)) -}}
{{- fail "replicas 2: both pods use the volume, so set persistence.accessModes to [ReadWriteMany]" -}}
{{- end -}}
{{- if not (include "gateway.mayHavePostgresql" .) -}}
{{- fail "replicas 2 needs settings.catalog.url of a PostgreSQL (or url_file, or ATTACHMENT_GATEWAY_CATALOG__URL in env): two gateways share no SQLite file" -}}
{{- end -}}
{{- end -}}

{{/* `http.hosts`, a list in JSON: those of the values, of the Ingress and of the HTTPRoute, and the Service's names beside
them. It is empty, so that every name is accepted, if there are none, or if the HTTPRoute takes all names of its Gateways. */}}
{{- define "gateway.hosts" -}}
{{- $hosts := (.Values.settings.http | default dict).hosts | default list -}}
{{- $takesAll := and .Values.httpRoute.enabled (not .Values.httpRoute.hostnames) -}}
{{- if .Values.ingress.enabled -}}
{{- $hosts = concat $hosts .Values.ingress.hosts -}}
{{- end -}}
{{- if .Values.httpRoute.enabled -}}
{{- $hosts = concat $hosts (.Values.httpRoute.hostnames | default list) -}}
{{- end -}}
{{- if and $hosts (not $takesAll) -}}
{{- $name := include "gateway.fullname" . -}}
{{- range list "" (printf ".%s" .Release.Namespace) (printf ".%s.svc" .Release.Namespace) (printf ".%s.svc.cluster.local" .Release.Namespace) -}}
{{- $hosts = append $hosts (print $name .) -}}
{{- end -}}
{{- uniq $hosts | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* The configuration file. What the chart itself decides wins over the values; Helm's whole numbers are floats by now. */}}
{{- define "gateway.toml" -}}
{{- $http := dict "host" "0.0.0.0" "port" 8080 -}}
{{- if include "gateway.publicMetrics" . -}}
{{- $_ := set $http "public" (list "docs" "metrics") -}}
{{- end -}}
{{- with include "gateway.hosts" . | fromJsonArray -}}
{{- $_ := set $http "hosts" . -}}
{{- end -}}
{{- $chart := dict "data" "/var/lib/gateway" "assembler" .Values.assembler "http" $http -}}
{{- if include "gateway.standsBy" . -}}
{{- $_ := set $chart "standby" (dict) -}}
{{- end -}}
{{- if include "gateway.hasReceivers" . -}}
{{- $_ := set $chart "journal" (dict "shared" true) -}}
{{- end -}}
{{- if .Values.traces.enabled -}}
{{- $_ := set $chart "traces" (dict "enabled" true "ratio" .Values.traces.ratio) -}}
{{- end -}}
{{- if and (eq .Values.assembler "spark") .Values.pipeline.metricsPort -}}
{{- $_ := set $chart "pipeline" (dict "metrics_host" "0.0.0.0" "metrics_port" .Values.pipeline.metricsPort) -}}
{{- end -}}
{{- $toml := mustMergeOverwrite (deepCopy .Values.settings) $chart | toToml -}}
{{- regexReplaceAll "(?m)^(\\s*[^\\s=\"]+ = -?[0-9]+)\\.0$" $toml "${1}" | trim -}}
{{- end -}}

{{/* Settings that Spark is to be told, one `key=value` a line; what the values say wins over what the chart chooses. */}}
{{- define "gateway.pipeline.conf" -}}
{{- $name := include "gateway.pipeline.fullname" . -}}
{{- $conf := dict -}}
{{- if hasPrefix "k8s://" .Values.pipeline.master -}}
{{- $executors := .Values.pipeline.executors -}}
{{- $conf = dict
  "spark.driver.bindAddress" "0.0.0.0"
  "spark.driver.host" (printf "%s.%s.svc" $name .Release.Namespace)
  "spark.driver.port" 7078
  "spark.driver.blockManager.port" 7079
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.driver.pod.name" "$(POD_NAME)"
  "spark.kubernetes.container.image" (include "gateway.pipeline.image" .)
  "spark.kubernetes.container.image.pullPolicy" .Values.pipeline.image.pullPolicy
  "spark.kubernetes.executor.podNamePrefix" $name
  "spark.kubernetes.executor.podTemplateFile" "/etc/gateway-executors/executor.yaml"
  "spark.kubernetes.executor.podTemplateContainerName" "executor"
  "spark.kubernetes.authenticate.executor.serviceAccountName" (include "gateway.serviceAccountName" .)
  "spark.executor.instances" $executors.instances
  "spark.executor.cores" $executors.cores
  "spark.executor.memory" $executors.memory
  "spark.executor.memoryOverhead" $executors.memoryOverhead
-}}
{{- end -}}
{{- range $key, $value := merge (deepCopy .Values.pipeline.conf) $conf }}
{{ $key }}={{ if kindIs "string" $value }}{{ $value }}{{ else }}{{ toJson $value }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "gateway.pipeline.fullname" -}}
{{- printf "%s-pipeline" (include "gateway.fullname" . | trunc 43 | trimSuffix "-") -}}
{{- end -}}

{{- define "gateway.pipeline.image" -}}
{{- include "gateway.image" (dict "image" .Values.pipeline.image "root" .) -}}
{{- end -}}

{{/* Another name than the gateway's, whose Service and StatefulSet select by name and instance alone. */}}
{{- define "gateway.pipeline.selectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-pipeline" (default .Chart.Name .Values.nameOverride | trunc 46 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.pipeline.labels" -}}
{{ include "gateway.pipeline.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gateway.pipeline.serviceAccountName" -}}
{{- if .Values.pipeline.serviceAccount.create -}}
{{- default (include "gateway.pipeline.fullname" .) .Values.pipeline.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.pipeline.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What would come up and not work. */}}
{{- define "gateway.pipeline.check" -}}
{{- $ownExecutors := not (hasPrefix "local" .Values.pipeline.master) -}}
{{- if .Values.pipeline.sharesVolume -}}
{{- if not .Values.persistence.enabled -}}
{{- fail "assembler spark with pipeline.sharesVolume needs persistence.enabled: there is no volume to share" -}}
{{- end -}}
{{- if not .Values.persistence.existingClaim -}}
{{- if and $ownExecutors (not (has "ReadWriteMany" .Values.persistence.accessModes)) -}}
{{- fail "executors in pods of their own share the volume only with persistence.accessModes [ReadWriteMany]" -}}
{{- end -}}
{{- if has "ReadWriteOncePod" .Values.persistence.accessModes -}}
{{- fail "assembler spark: two pods share the volume, so set persistence.accessModes to [ReadWriteOnce] or [ReadWriteMany]" -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- $settings := .Values.settings -}}
{{- range $section, $key := dict "journal" "archive_url" "content" "url" "tables" "url" "pipeline" "checkpoint" -}}
{{- if not (dig $section $key "" $settings) -}}
{{- fail (printf "assembler spark without pipeline.sharesVolume needs settings.%s.%s" $section $key) -}}
{{- end -}}
{{- end -}}
{{- if not (include "gateway.mayHavePostgresql" .) -}}
{{- fail "assembler spark without pipeline.sharesVolume needs settings.catalog.url of a PostgreSQL (or url_file, or ATTACHMENT_GATEWAY_CATALOG__URL in env): gateway and job share no SQLite file" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The template of the pods that Spark creates. */}}
{{- define "gateway.pipeline.executor" -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "gateway.pipeline.executor.selectorLabels" . | nindent 4 }}
    {{- with .Values.pipeline.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: executor
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      {{- with concat (include "gateway.env" . | fromJson).all .Values.pipeline.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: temporary
          mountPath: /tmp
        - name: work
          mountPath: /var/lib/gateway
        {{- if .Values.existingSecret }}
        - name: secrets
          mountPath: /run/secrets/gateway
          readOnly: true
        {{- end }}
        {{- with .Values.pipeline.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: temporary
      emptyDir: {}
    - name: work
      {{- if .Values.pipeline.sharesVolume }}
      persistentVolumeClaim:
        claimName: {{ default (include "gateway.fullname" .) .Values.persistence.existingClaim }}
      {{- else }}
      emptyDir: {}
      {{- end }}
    {{- with .Values.existingSecret }}
    - name: secrets
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.pipeline.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.pipeline.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.pipeline.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The labels of these pods, by which policies select them. */}}
{{- define "gateway.pipeline.executor.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gateway.pipeline.fullname" . }}-executor
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Where pods may connect to: everywhere, or DNS and what the values list. */}}
{{- define "gateway.egress" -}}
{{- with .Values.networkPolicy.egress -}}
egress:
  - ports:
      - port: 53
        protocol: UDP
      - port: 53
        protocol: TCP
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* What both ServiceMonitors have. */}}
{{- define "gateway.serviceMonitor.endpoint" -}}
interval: {{ .Values.serviceMonitor.interval }}
{{- with .Values.serviceMonitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gateway.test.fullname" -}}
{{- printf "%s-test" (include "gateway.fullname" .) -}}
{{- end -}}
