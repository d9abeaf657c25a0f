"""This host as a Node: its capacity and heartbeat, the pods bound to it, addresses, machines."""
