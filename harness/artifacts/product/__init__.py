"""What a product asks for of the mirror and the registry, beyond what its phases bring along."""
