"""How the phases of a product are run: what each kind of product makes of them, behind one Protocol."""
