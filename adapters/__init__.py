"""What stands between the ports of `app.ports` and the world: brokers, disks, databases."""
