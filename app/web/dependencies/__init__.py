"""Dependencies of endpoints: the gateway, who calls, and the records that identifiers name."""
