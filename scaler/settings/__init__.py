"""The only reader of environment and configuration files."""

from scaler.settings.file import Configuration, DemandQueries, parse_configuration, schema
from scaler.settings.place import Kubernetes, Place, read_place
from scaler.settings.process import Ports, read_ports
from scaler.settings.watched import WatchedFile, read_configuration

__all__ = [
    "Configuration",
    "DemandQueries",
    "Kubernetes",
    "Place",
    "Ports",
    "WatchedFile",
    "parse_configuration",
    "read_configuration",
    "read_place",
    "read_ports",
    "schema",
]
