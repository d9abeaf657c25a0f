"""Programs that run on machines, sent there as text; they import nothing of vmatrix but `library`, which goes along."""
