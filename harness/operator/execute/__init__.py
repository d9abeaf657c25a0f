"""One operation on a guest cluster: the objects it is made of, and the program that its Job's pod runs."""
