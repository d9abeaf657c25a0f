"""What is known of a guest: what its inventory asks for, what its machines and its API reported."""
