"""Order and admission of cells that run side by side; empty while cells run one after the other."""
