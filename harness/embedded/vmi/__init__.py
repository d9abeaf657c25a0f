"""VirtualMachineInstances: launcher pods, phases and conditions, and the machine behind each instance."""
