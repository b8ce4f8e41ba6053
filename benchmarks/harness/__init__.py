"""`keras-vit bench`: models beside their peers, each in a process of its own, taking turns."""
