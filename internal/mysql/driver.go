package mysql

import "database/sql/driver"

// Short names for the standard library's driver package, whose own name the MySQL driver's takes here.
type (
	sqlConnector = driver.Connector
	sqlConn      = driver.Conn
	sqlDriver    = driver.Driver
)
