"""Ways into machines: SSH, and port forwarding through the API of the infra cluster."""
