/* The status entry of a session in PostgreSQL 16 (src/include/utils/backend_status.h), with the query id moved before the last progress
 * parameter: its debug information, as the compiler writes it, is what tests/src/moved.rs installs. */
typedef unsigned int Oid;
typedef long int int64;
typedef unsigned long int uint64;
typedef int64 TimestampTz;
typedef enum BackendType { B_INVALID, B_BACKEND } BackendType;
typedef enum BackendState { STATE_UNDEFINED, STATE_IDLE } BackendState;
typedef enum ProgressCommandType { PROGRESS_COMMAND_INVALID } ProgressCommandType;
typedef struct SockAddr { struct { char data[128]; } addr __attribute__((aligned(8))); unsigned int salen; } SockAddr;

typedef struct PgBackendStatus {
	int st_changecount;
	int st_procpid;
	BackendType st_backendType;
	TimestampTz st_proc_start_timestamp;
	TimestampTz st_xact_start_timestamp;
	TimestampTz st_activity_start_timestamp;
	TimestampTz st_state_start_timestamp;
	Oid st_databaseid;
	Oid st_userid;
	SockAddr st_clientaddr;
	char *st_clienthostname;
	_Bool st_ssl;
	struct PgBackendSSLStatus *st_sslstatus;
	_Bool st_gss;
	struct PgBackendGSSStatus *st_gssstatus;
	BackendState st_state;
	char *st_appname;
	char *st_activity_raw;
	ProgressCommandType st_progress_command;
	Oid st_progress_command_target;
	int64 st_progress_param[19];
	uint64 st_query_id;
	int64 st_progress_param_last;
} PgBackendStatus;

PgBackendStatus *MyBEEntry;
