"""An active gateway and others that stand by: the Lease that makes one of them active."""
