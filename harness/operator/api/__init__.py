"""The kinds of group `cluster.vmatrix.dev`: their models, defaults, rules, and the definitions made from them."""
