"""The operator: guest clusters as declared objects, made and kept by controllers with the playbooks."""
