"""What controllers are made from: clients, stores, signals, and what reads and applies Works."""
