"""Kubernetes, where there is one: which workloads and replicas exist, how long starts take, where state is kept, and who leads."""
