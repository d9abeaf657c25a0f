"""How fast a guest is: figures, the calibration beside them, and whether they are slower than usual."""
