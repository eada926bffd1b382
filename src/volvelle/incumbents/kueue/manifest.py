"""The rights that attach needs, as a manifest: printed, and installed by nobody but its reader."""

MANIFEST = """\
# For volvelle attach kueue: it reads (get, list, watch) and changes nothing.
# A token: kubectl create token volvelle-attach -n volvelle --duration 720h
apiVersion: v1
kind: Namespace
metadata:
  name: volvelle
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: volvelle-attach
  namespace: volvelle
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: volvelle-attach
rules:
- apiGroups: [kueue.x-k8s.io]
  resources:
  - workloads
  - clusterqueues
  - cohorts
  - localqueues
  - resourceflavors
  - topologies
  - workloadpriorityclasses
  verbs: [get, list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [nodes, namespaces]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: volvelle-attach
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: volvelle-attach
subjects:
- kind: ServiceAccount
  name: volvelle-attach
  namespace: volvelle
---
# Kueue's Configuration says whether fair sharing is on.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: volvelle-attach
  namespace: kueue-system
rules:
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kueue-manager-config]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: volvelle-attach
  namespace: kueue-system
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: volvelle-attach
subjects:
- kind: ServiceAccount
  name: volvelle-attach
  namespace: volvelle
"""
