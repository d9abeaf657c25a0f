"""From a revision of a repository to an image in a registry: the Job of a Delivery, and what runs inside of it."""
