"""The main job on one machine: a fleet that speaks vLLM's language, a stand-in for KEDA and the HPA, a gateway, traffic.

Everything talks over real sockets on loopback, and the scaler in the middle is the one that ``serve`` runs. Nothing here
is used by ``serve``.
"""
