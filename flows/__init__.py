"""When and where: Prefect flows, stores, settings and the command line. The only place that opens anything."""
