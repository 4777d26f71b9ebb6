{{/* The processes of a release: the gateway's own pod, pods that receive (`receivers`), serve (`web`) and keep (`keepers`).
*/}}

{{/* Not empty if several pods receive, also if KEDA chooses their number. */}}
{{- define "gateway.hasReceivers" -}}
{{- if or (kindIs "invalid" .Values.receivers.replicas) .Values.receivers.replicas -}}true{{- end -}}
{{- end -}}

{{- define "gateway.isDivided" -}}
{{- if or .Values.web.replicas .Values.keepers.replicas (include "gateway.hasReceivers" .) -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the gateway's own pod has something to do that no other pod does. */}}
{{- define "gateway.hasOwnPod" -}}
{{- if not (and .Values.web.replicas .Values.keepers.replicas (include "gateway.hasReceivers" .)) -}}true{{- end -}}
{{- end -}}

{{/* What is to be known of a process, as JSON: its `name`, the arguments of its command, its resources, whether it `serves`.
Give `root`, and `process`: "gateway", "receiver", "web" or "keeper". */}}
{{- define "gateway.process" -}}
{{- $values := .root.Values -}}
{{- $roles := list -}}
{{- if eq .process "web" -}}
{{- $roles = list "serve" -}}
{{- else if eq .process "keeper" -}}
{{- $roles = list "keep" -}}
{{- else if eq .process "receiver" -}}
{{- $roles = list "receive" -}}
{{- else if include "gateway.isDivided" .root -}}
{{- $receives := empty (include "gateway.hasReceivers" .root) -}}
{{- $roles = concat (ternary (list "receive") (list) $receives) (ternary (list) (list "serve") (gt (int $values.web.replicas) 0)) (ternary (list) (list "keep") (gt (int $values.keepers.replicas) 0)) -}}
{{- end -}}
{{- $arguments := list -}}
{{- range $roles -}}
{{- $arguments = concat $arguments (list "--role" .) -}}
{{- end -}}
{{- $resources := get (dict "gateway" $values.resources "receiver" $values.receivers.resources "web" $values.web.resources "keeper" $values.keepers.resources) .process -}}
{{- $suffix := get (dict "gateway" "" "receiver" "-receiver" "web" "-web" "keeper" "-keeper") .process -}}
{{- dict "suffix" $suffix "arguments" $arguments "resources" $resources "serves" (or (not $roles) (has "serve" $roles)) | toJson -}}
{{- end -}}

{{/* The name of a process: give `root` and `suffix`. At most 52 characters, as that of a StatefulSet. */}}
{{- define "gateway.process.fullname" -}}
{{- printf "%s%s" (include "gateway.fullname" .root | trunc 43 | trimSuffix "-") .suffix -}}
{{- end -}}

{{/* Each process has a name of its own: the StatefulSet and the Services select by name and instance. */}}
{{- define "gateway.process.selectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s%s" (default .root.Chart.Name .root.Values.nameOverride | trunc 54 | trimSuffix "-") .suffix }}
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
{{- fail (printf "receivers.replicas, web.replicas and keepers.replicas need settings.%s.%s: a place that all pods reach" $section $key) -}}
{{- end -}}
{{- end -}}
{{- if not (include "gateway.mayHavePostgresql" .) -}}
{{- fail "receivers.replicas, web.replicas and keepers.replicas need settings.catalog.url of a PostgreSQL (or url_file, or ATTACHMENT_GATEWAY_CATALOG__URL in env): pods share no SQLite file" -}}
{{- end -}}
{{- end -}}

{{/* What would come up and not receive, or receive each message several times. The pods check all else at their start. */}}
{{- define "gateway.receivers.check" -}}
{{- include "gateway.divided.check" . -}}
{{- if or (include "gateway.standsBy" .) .Values.settings.standby -}}
{{- fail "receivers.replicas and a gateway that stands by (replicas 2, settings.standby) exclude each other: of several receivers none is the active one" -}}
{{- end -}}
{{- if and (eq .Values.assembler "spark") .Values.pipeline.sharesVolume -}}
{{- fail "receivers.replicas needs pipeline.sharesVolume false: the job reads the archive, since each receiver has a volume of its own" -}}
{{- end -}}
{{- $several := or (kindIs "invalid" .Values.receivers.replicas) (gt (int .Values.receivers.replicas) 1) -}}
{{- range $name, $source := .Values.settings.sources -}}
{{- if kindIs "map" $source -}}
{{- $setting := printf "receivers.replicas: settings.sources.%s" $name -}}
{{- if or (eq $source.transport "rendezvous") (eq (default "" $source.framing) "sas_rendezvous") -}}
{{- fail (printf "%s numbers its messages when they arrive, so one receiver must get all of them: use a release of its own for it" $setting) -}}
{{- end -}}
{{- if and (eq $source.transport "ibm_mq") (ternary (eq (int (default 1 $source.connections)) 1) $source.exclusive (kindIs "invalid" $source.exclusive)) -}}
{{- fail (printf "%s opens its queue exclusively: set exclusive to false, so that all receivers get from it" $setting) -}}
{{- end -}}
{{- if eq $source.transport "mqtt" -}}
{{- if or (ne $name (lower $name)) (contains "__" $name) (hasSuffix "_" $name) -}}
{{- fail (printf "%s gets a client_id for each pod by an environment variable, which cannot name it: use lower case, no two underscores side by side, and none at the end" $setting) -}}
{{- end -}}
{{- if $several -}}
{{- range (kindIs "slice" $source.topic | ternary $source.topic (list $source.topic)) -}}
{{- if and . (not (hasPrefix "$share/" .)) -}}
{{- fail (printf "%s.topic: every receiver would get every message of %s; subscribe as a group, as in $share/gateways/%s" $setting . .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether messages are acknowledged when the archive has them: then pods that receive need no volume. */}}
{{- define "gateway.receivers.needNoDisk" -}}
{{- if eq (default "disk" (default dict .Values.settings.journal).ack) "archive" -}}true{{- end -}}
{{- end }}

{{/* The environment variables by which each pod that receives has MQTT client identifiers of its own. */}}
{{- define "gateway.receivers.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- range $name, $source := .Values.settings.sources }}
{{- if and (kindIs "map" $source) (eq $source.transport "mqtt") }}
- name: ATTACHMENT_GATEWAY_SOURCES__{{ upper $name }}__CLIENT_ID
  value: {{ ternary (printf "%s-$(POD_NAME)" $source.client_id) (printf "$(POD_NAME)-%s" $name) (not (empty $source.client_id)) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The pod of a process. Give `root`, and `process`: "gateway", "receiver", "web" or "keeper". */}}
{{- define "gateway.pod" -}}
{{- $process := include "gateway.process" . | fromJson -}}
{{- $_ := set $process "root" .root -}}
{{- $isStateful := eq .process "gateway" -}}
{{- $isReceiver := eq .process "receiver" -}}
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
  automountServiceAccountToken: false
  # Kubernetes would add variables such as ATTACHMENT_GATEWAY_SERVICE_HOST, which look like settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ ternary .Values.receivers.terminationGracePeriodSeconds .Values.terminationGracePeriodSeconds $isReceiver }}
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
      {{- $env := (include "gateway.env" . | fromJson).all }}
      {{- if or $env $isReceiver }}
      env:
        {{- with $env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if $isReceiver }}
        {{- include "gateway.receivers.env" . | nindent 8 }}
        {{- end }}
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
    {{- if or (not $isReceiver) (include "gateway.receivers.needNoDisk" .) }}
    - name: data
      {{- if and $isStateful .Values.persistence.enabled }}
      persistentVolumeClaim:
        claimName: {{ default (include "gateway.fullname" .) .Values.persistence.existingClaim }}
      {{- else }}
      emptyDir: {}
      {{- end }}
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
  {{- if $isReceiver }}
  topologySpreadConstraints:
    {{- if .Values.receivers.topologySpreadConstraints }}
    {{- toYaml .Values.receivers.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "gateway.process.selectorLabels" $process | nindent 10 }}
    {{- end }}
    {{- end }}
  {{- else if .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
  {{- end }}
  {{- if .Values.affinity }}
  affinity:
    {{- toYaml .Values.affinity | nindent 4 }}
  {{- else if and (not $isReceiver) (or (not $isStateful) (include "gateway.standsBy" .)) }}
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
