BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('3');
CREATE TABLE entries (
	seq BIGINT NOT NULL, 
	time DOUBLE NOT NULL, 
	body TEXT NOT NULL, 
	records TEXT NOT NULL, digest VARCHAR(32) DEFAULT '' NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "entries" VALUES(0,0.0,'{"time":0.0,"events":[{"type":"node","time":0.0,"name":"node-0","state":"down","node":null},{"type":"node","time":0.0,"name":"node-1","state":"down","node":null}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[]','e5cd68b663e3d7641d149a507396c7dd');
INSERT INTO "entries" VALUES(1,0.0,'{"time":0.0,"events":[{"type":"node","time":0.0,"name":"node-0","state":"up","node":{"name":"node-0","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null}},{"type":"node","time":0.0,"name":"node-1","state":"up","node":{"name":"node-1","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null}}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[{"type":"server-began","identity":"f703d8f8c517"}]','fa330929096488f14c584c99cc058dc0');
INSERT INTO "entries" VALUES(2,2.0,'{"time":2.0,"events":[{"type":"submitted","time":2.0,"number":0,"spec":{"id":"0","submit_time":2.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-2","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":2.0,"throughput":null,"skew":0.0,"lowest_loss":null,"accept_later":false,"adaptation":null}}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":3.0,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[]','59867b5a0f915dafbffe1fa3f922f9e2');
INSERT INTO "entries" VALUES(3,3.0,'{"time":3.0,"events":[{"type":"submitted","time":3.0,"number":1,"spec":{"id":"1","submit_time":3.0,"gpus":2.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-9","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":9.0,"throughput":null,"skew":0.0,"lowest_loss":null,"accept_later":false,"adaptation":null}},{"type":"wake-up","time":3.0}],"decision":{"job":[0,1],"gpus":[1.0,2.0],"gpu_type":[0,0],"attempt":[1,1],"slot_offsets":[0,1,3],"slots":[0,1,2],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[]','a189d5f2bbd253ac7603460e6fd7f1eb');
INSERT INTO "entries" VALUES(4,4.0,'{"time":4.0,"events":[{"type":"started","time":4.0,"number":0,"attempt":1,"start":3.0},{"type":"started","time":4.0,"number":1,"attempt":1,"start":3.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[{"type":"attempt-started","number":0,"attempt":1,"identity":"b24745c341f6-f703d8f8c517"},{"type":"attempt-started","number":1,"attempt":1,"identity":"d8c75b59ab2a-f703d8f8c517"}]','352fea794349a3161c0460517d4955b6');
INSERT INTO "entries" VALUES(5,6.0,'{"time":6.0,"events":[{"type":"progress","time":6.0,"number":0,"attempt":1,"iterations":0,"total_iterations":2,"iteration_seconds":1.0},{"type":"progress","time":6.0,"number":1,"attempt":1,"iterations":0,"total_iterations":9,"iteration_seconds":1.0},{"type":"finished","time":6.0,"number":0,"attempt":1},{"type":"submitted","time":6.0,"number":2,"spec":{"id":"2","submit_time":6.0,"gpus":2.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-30","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":30.0,"throughput":null,"skew":0.0,"lowest_loss":null,"accept_later":false,"adaptation":null}}],"decision":{"job":[2],"gpus":[2.0],"gpu_type":[0],"attempt":[1],"slot_offsets":[0,2],"slots":[0,3],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[{"type":"attempt-ended","number":0,"attempt":1,"identity":"b24745c341f6-f703d8f8c517","outcome":"finished","exit_code":null,"reason":"","iterations":2,"saved_iterations":2,"ago":null}]','4cbc44a57dce6e990fb48c59a979e332');
INSERT INTO "entries" VALUES(6,6.0,'{"time":6.0,"events":[{"type":"started","time":6.0,"number":2,"attempt":1,"start":6.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[{"type":"attempt-started","number":2,"attempt":1,"identity":"e6579a8a8619-f703d8f8c517"}]','1ca6c8229601b20add7d8088a5a4c164');
INSERT INTO "entries" VALUES(7,8.0,'{"time":8.0,"events":[{"type":"progress","time":8.0,"number":2,"attempt":1,"iterations":0,"total_iterations":30,"iteration_seconds":1.0},{"type":"submitted","time":8.0,"number":3,"spec":{"id":"3","submit_time":8.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-30","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":30.0,"throughput":null,"skew":0.0,"lowest_loss":null,"accept_later":false,"adaptation":null}}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":9.0,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[]','ab3b816ed22a0983dba2b78ffa76f58d');
INSERT INTO "entries" VALUES(8,9.0,'{"time":9.0,"events":[{"type":"submitted","time":9.0,"number":4,"spec":{"id":"4","submit_time":9.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"bob","pool":"","name":"","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":60.0,"throughput":null,"skew":0.0,"lowest_loss":null,"accept_later":false,"adaptation":null}},{"type":"submitted","time":9.0,"number":5,"spec":{"id":"5","submit_time":9.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"bob","pool":"","name":"","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":60.0,"throughput":null,"skew":0.0,"lowest_loss":null,"accept_later":false,"adaptation":null}},{"type":"submitted","time":9.0,"number":6,"spec":{"id":"6","submit_time":9.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"bob","pool":"","name":"","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":60.0,"throughput":null,"skew":0.0,"lowest_loss":null,"accept_later":false,"adaptation":null}},{"type":"wake-up","time":9.0}],"decision":{"job":[2,1,3,4,5,6],"gpus":[0.0,0.0,1.0,1.0,1.0,1.0],"gpu_type":[-1,-1,0,0,0,0],"attempt":[1,1,1,1,1,1],"slot_offsets":[0,0,0,1,2,3,4],"slots":[0,1,2,3],"rejected":[],"concluded":[],"wake_at":12.0,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[]','20a4f7d6a8e2ad425770c228fe218281');
INSERT INTO "entries" VALUES(9,10.0,'{"time":10.0,"events":[{"type":"stopped","time":10.0,"number":1,"attempt":1,"work_done":12.0},{"type":"stopped","time":10.0,"number":2,"attempt":1,"work_done":6.0},{"type":"node","time":10.0,"name":"node-1","state":"draining","node":null},{"type":"held","time":10.0,"number":2},{"type":"cancelled","time":10.0,"number":4}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":12.0,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[{"type":"node-drained","name":"node-1","drained":true},{"type":"attempt-ended","number":1,"attempt":1,"identity":"d8c75b59ab2a-f703d8f8c517","outcome":"stopped","exit_code":null,"reason":"","iterations":6,"saved_iterations":6,"ago":null},{"type":"attempt-ended","number":2,"attempt":1,"identity":"e6579a8a8619-f703d8f8c517","outcome":"stopped","exit_code":null,"reason":"","iterations":4,"saved_iterations":4,"ago":null}]','fe985e202fefc186b3557ad5ad12694c');
INSERT INTO "entries" VALUES(10,10.0,'{"time":10.0,"events":[{"type":"started","time":10.0,"number":3,"attempt":1,"start":10.0},{"type":"started","time":10.0,"number":5,"attempt":1,"start":10.0},{"type":"started","time":10.0,"number":6,"attempt":1,"start":10.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":12.0,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[{"type":"attempt-started","number":3,"attempt":1,"identity":"dbfbf530995b-f703d8f8c517"},{"type":"attempt-started","number":5,"attempt":1,"identity":"4a0cf78f823b-f703d8f8c517"},{"type":"attempt-started","number":6,"attempt":1,"identity":"3ce7b3c7fa2d-f703d8f8c517"}]','5d339f1e9c6237e0c8151e1890e06330');
INSERT INTO "entries" VALUES(11,12.0,'{"time":12.0,"events":[{"type":"wake-up","time":12.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":15.0,"partner":[],"sharing":null,"promises":[],"notices":[]}}','[]','129fe11ecba033cce4e5a3f8c919503e');
CREATE TABLE header (
	one INTEGER NOT NULL, 
	epoch DOUBLE NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (one)
);
INSERT INTO "header" VALUES(0,1000000.0,'{"volvelle":"test","cluster":{"nodes":[{"name":"node-0","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null},{"name":"node-1","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null}],"pools":[],"changes":[],"failures":null,"profiling":null},"composition":{"policy":"las:round=3","placement":"first-free","admission":"accept-all","estimator":"measured","termination":"completion"},"overheads":{},"seed":0,"format":1,"whole":null}');
CREATE TABLE jobs (
	number BIGINT NOT NULL, 
	user VARCHAR(200) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	position INTEGER NOT NULL, 
	request TEXT NOT NULL, 
	submitted DOUBLE NOT NULL, 
	forecast_finish DOUBLE, 
	promised_p50 DOUBLE, 
	promised_p90 DOUBLE, 
	state VARCHAR(20), 
	reason TEXT, 
	ended DOUBLE, 
	status TEXT, identity VARCHAR(32) DEFAULT '' NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "jobs" VALUES(0,'ada','of-2',0,'{"name":"of-2","command":["sleep","2"],"estimate":2.0}',1000002.0,NULL,NULL,NULL,'finished','',1000006.0,'{"number":0,"name":"of-2","user":"ada","state":"finished","gpus":1.0,"submitted":1000002.0,"request":{"name":"of-2","command":["sleep","2"],"estimate":2.0},"identity":"b24745c341f6","started":1000003.0,"first_started":1000003.0,"ended":1000006.0,"grants":[],"attempt":1,"ran_on":{"node-0":1},"preemptions":0,"failures":0,"reason":"","iterations":2,"saved_iterations":2,"total_iterations":2,"iteration_seconds":1.0,"metrics":{},"predicted_start":null,"predicted_p50":null,"predicted_p90":null,"promised":null,"guarantee":null,"profiling":false,"profile":null}','b24745c341f6');
INSERT INTO "jobs" VALUES(1,'ada','of-9',0,'{"name":"of-9","command":["sleep","9"],"gpus":2,"estimate":9.0}',1000003.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'d8c75b59ab2a');
INSERT INTO "jobs" VALUES(2,'ada','of-30',0,'{"name":"of-30","command":["sleep","30"],"gpus":2,"estimate":30.0}',1000006.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'e6579a8a8619');
INSERT INTO "jobs" VALUES(3,'ada','of-30',0,'{"name":"of-30","command":["sleep","30"],"estimate":30.0}',1000008.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'dbfbf530995b');
INSERT INTO "jobs" VALUES(4,'bob','',0,'{"command":["sleep","60"],"estimate":60.0,"array":3}',1000009.0,NULL,NULL,NULL,'cancelled','cancelled',1000010.0,'{"number":4,"name":"","user":"bob","state":"cancelled","gpus":1.0,"submitted":1000009.0,"request":{"command":["sleep","60"],"estimate":60.0,"array":3},"identity":"c35feeb182e4","started":null,"first_started":null,"ended":1000010.0,"grants":[],"attempt":0,"ran_on":{},"preemptions":0,"failures":0,"reason":"cancelled","iterations":0,"saved_iterations":0,"total_iterations":0,"iteration_seconds":0.0,"metrics":{},"predicted_start":null,"predicted_p50":null,"predicted_p90":null,"promised":null,"guarantee":null,"profiling":false,"profile":null}','c35feeb182e4');
INSERT INTO "jobs" VALUES(5,'bob','',1,'{"command":["sleep","60"],"estimate":60.0,"array":3}',1000009.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'4a0cf78f823b');
INSERT INTO "jobs" VALUES(6,'bob','',2,'{"command":["sleep","60"],"estimate":60.0,"array":3}',1000009.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'3ce7b3c7fa2d');
CREATE TABLE snapshots (
	seq BIGINT NOT NULL, 
	format INTEGER NOT NULL, 
	entry VARCHAR(32) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (seq)
);
CREATE TABLE submissions (
	user VARCHAR(200) NOT NULL, 
	"key" VARCHAR(200) NOT NULL, 
	first BIGINT NOT NULL, 
	count INTEGER NOT NULL, digest VARCHAR(64) DEFAULT '' NOT NULL, 
	PRIMARY KEY (user, "key")
);
INSERT INTO "submissions" VALUES('ada','key-2-1',0,1,'af60111b52729f2f8fcd256e0126603234480dc93b8452405f71a22be833ae84');
INSERT INTO "submissions" VALUES('ada','key-9-2',1,1,'b595969dd4233e330f5090b9342caddf78292e3838f439d3acbdee0a877f52f4');
INSERT INTO "submissions" VALUES('ada','key-30-2',2,1,'48065cb3173a565b73de34917a5e9eda941dd01cce54a3ca82e57160e8c01010');
INSERT INTO "submissions" VALUES('ada','key-30-1',3,1,'2da5c928e4c7cbe7f34d6115fad3649fa181535c2f2327f7f0523d5ac73a4513');
CREATE TABLE tokens (
	digest VARCHAR(128) NOT NULL, 
	user VARCHAR(200) NOT NULL, 
	role VARCHAR(20) NOT NULL, 
	label VARCHAR(200) NOT NULL, 
	created DOUBLE NOT NULL, 
	revoked BOOLEAN NOT NULL, 
	PRIMARY KEY (digest)
);
CREATE TABLE writer (
	one INTEGER NOT NULL, 
	token VARCHAR(64) NOT NULL, 
	PRIMARY KEY (one)
);
INSERT INTO "writer" VALUES(0,'063187bd53f7b0fbf303373fe8848d32');
CREATE INDEX jobs_by_user ON jobs (user, number);
CREATE INDEX jobs_by_state ON jobs (state, number);
COMMIT;
