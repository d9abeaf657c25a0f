"""One cell's life: namespace, images, machines, access, inventory, deployment, diagnosis, teardown."""
