"""Front doors that speak HTTP: they translate both ways and decide nothing."""
