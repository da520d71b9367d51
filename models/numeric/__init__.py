"""Numbers of a network: quantisation to int16, the golden model, the float reference, the accuracy guard."""
