"""Online Continual Graph Learning."""
