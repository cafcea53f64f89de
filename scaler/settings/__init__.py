"""The only reader of environment and configuration files."""

from scaler.settings.file import Configuration, DemandQueries, parse_configuration, schema
from scaler.settings.process import Ports, read_ports
from scaler.settings.watched import WatchedFile, read_configuration

__all__ = [
    "Configuration",
    "DemandQueries",
    "Ports",
    "WatchedFile",
    "parse_configuration",
    "read_configuration",
    "read_ports",
    "schema",
]
