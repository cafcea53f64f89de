"""Whether a discovered address may be dialled. Looked at for every request, so that no name and no later change gets around it.

The address of a pod is the API server's word, but whoever may write a pod's status chooses it. Dialled from our network, some addresses
lead to what only we can reach: this process itself, its node, or a cloud's metadata service.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

METADATA = frozenset({ip_address("fd00:ec2::254"), ip_address("100.100.100.200"), ip_address("168.63.129.16")})
"""Metadata services of clouds outside of the link-local range: of EC2 over IPv6, of Alibaba Cloud, of Azure."""
_NAT64 = 0x0064FF9B << 96
_LOW = 0xFFFFFFFF


def refused(address: str, *, loopback: bool) -> str:
    """Why host:port is not dialled, empty if it may be. With ``loopback`` the cluster is on this machine, and its pods may be, too."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        told = ip_address(host)
    except ValueError:  # a name: who answers for it may give another address each time
        return "its address is no IP address"
    return _kept_out(_meant(told), loopback=loopback)


def _kept_out(ip: IPv4Address | IPv6Address, *, loopback: bool) -> str:
    if ip.is_unspecified or ip.is_multicast or ip == IPv4Address(_LOW):
        return "its address is no address of a pod"
    if ip.is_loopback and not loopback:
        return "its address is this machine's own"
    return "its address is a link-local one or a metadata service" if ip.is_link_local or ip in METADATA else ""


def _meant(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address stands for, where it stands for one."""
    if isinstance(ip, IPv4Address):
        return ip
    if int(ip) & ~_LOW == _NAT64 or (int(ip) >> 32 == 0 and int(ip) > 1):
        return IPv4Address(int(ip) & _LOW)
    return ip.ipv4_mapped or ip.sixtofour or ip
