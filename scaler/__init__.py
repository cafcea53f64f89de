"""A KEDA external scaler for LLM inference: replicas and admission from one SLO estimate."""

__version__ = "0.1.0"
