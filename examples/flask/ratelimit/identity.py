"""Who is asking.

An API key counts only if it is known: a key that the caller may invent would be a new budget for every request. Keys
of Redis carry the account's name, never the API key. Without a known key the address counts.

X-Forwarded-For is what anybody can send. It is read only if the peer is a proxy that we trust, from the right, and
the first address that is not one of our proxies is the caller.
"""

import hmac
from ipaddress import ip_address, ip_network


class Identities:
    def __init__(self, accounts, trusted_proxies=()):
        self.accounts = {key.encode(): account for key, account in accounts.items()}
        self.trusted = [ip_network(network) for network in trusted_proxies]

    def caller(self, request):
        account = self._account(request.headers.get("X-API-Key", ""))
        return f"account:{account}" if account else self.address(request)

    def address(self, request):
        peer = ip_address(request.remote_addr)
        if self._is_proxy(peer):
            for text in reversed(request.headers.get("X-Forwarded-For", "").split(",")):
                try:
                    hop = ip_address(text.strip())
                except ValueError:
                    break
                peer = hop
                if not self._is_proxy(hop):
                    break
        return f"address:{whose(peer)}"

    def _is_proxy(self, address):
        return any(address.version == network.version and address in network for network in self.trusted)

    def _account(self, given):
        given = given.encode()
        found = None
        # Every key is compared, each in constant time: the time taken tells nothing about the keys.
        for key, account in self.accounts.items():
            if hmac.compare_digest(key, given):
                found = account
        return found


def whose(address):
    """The part of an address that one customer has: all of an IPv4 address, the /64 of an IPv6 address."""
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.version == 6:
        return str(ip_network((address, 64), strict=False))
    return str(address)
