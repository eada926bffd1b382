BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('1');
CREATE TABLE entries (
	seq BIGINT NOT NULL, 
	time DOUBLE NOT NULL, 
	body TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "entries" VALUES(0,0.0,'{"time":0.0,"events":[{"type":"node","time":0.0,"name":"node-0","state":"down","node":null},{"type":"node","time":0.0,"name":"node-1","state":"down","node":null}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null}}','[]');
INSERT INTO "entries" VALUES(1,0.0,'{"time":0.0,"events":[{"type":"node","time":0.0,"name":"node-0","state":"up","node":{"name":"node-0","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null}},{"type":"node","time":0.0,"name":"node-1","state":"up","node":{"name":"node-1","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null}}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null}}','[]');
INSERT INTO "entries" VALUES(2,2.0,'{"time":2.0,"events":[{"type":"submitted","time":2.0,"number":0,"spec":{"id":"0","submit_time":2.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-2","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":2.0,"throughput":null,"skew":0.0,"lowest_loss":null},"truth":null}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":3.0,"partner":[],"sharing":null}}','[]');
INSERT INTO "entries" VALUES(3,3.0,'{"time":3.0,"events":[{"type":"submitted","time":3.0,"number":1,"spec":{"id":"1","submit_time":3.0,"gpus":2.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-9","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":9.0,"throughput":null,"skew":0.0,"lowest_loss":null},"truth":null},{"type":"wake-up","time":3.0}],"decision":{"job":[0,1],"gpus":[1.0,2.0],"gpu_type":[0,0],"attempt":[1,1],"slot_offsets":[0,1,3],"slots":[0,1,2],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null}}','[]');
INSERT INTO "entries" VALUES(4,4.0,'{"time":4.0,"events":[{"type":"started","time":4.0,"number":0,"attempt":1,"start":3.0},{"type":"started","time":4.0,"number":1,"attempt":1,"start":3.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null}}','[{"type":"attempt-started","number":0,"attempt":1},{"type":"attempt-started","number":1,"attempt":1}]');
INSERT INTO "entries" VALUES(5,6.0,'{"time":6.0,"events":[{"type":"progress","time":6.0,"number":0,"attempt":1,"iterations":0,"total_iterations":2,"iteration_seconds":1.0},{"type":"progress","time":6.0,"number":1,"attempt":1,"iterations":0,"total_iterations":9,"iteration_seconds":1.0},{"type":"finished","time":6.0,"number":0,"attempt":1},{"type":"submitted","time":6.0,"number":2,"spec":{"id":"2","submit_time":6.0,"gpus":2.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-30","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":30.0,"throughput":null,"skew":0.0,"lowest_loss":null},"truth":null}],"decision":{"job":[2],"gpus":[2.0],"gpu_type":[0],"attempt":[1],"slot_offsets":[0,2],"slots":[0,3],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null}}','[{"type":"attempt-ended","number":0,"attempt":1,"outcome":"finished","exit_code":null,"reason":"","iterations":2,"saved_iterations":2}]');
INSERT INTO "entries" VALUES(6,6.0,'{"time":6.0,"events":[{"type":"started","time":6.0,"number":2,"attempt":1,"start":6.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":null,"partner":[],"sharing":null}}','[{"type":"attempt-started","number":2,"attempt":1}]');
INSERT INTO "entries" VALUES(7,8.0,'{"time":8.0,"events":[{"type":"progress","time":8.0,"number":2,"attempt":1,"iterations":0,"total_iterations":30,"iteration_seconds":1.0},{"type":"submitted","time":8.0,"number":3,"spec":{"id":"3","submit_time":8.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"ada","pool":"","name":"of-30","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":30.0,"throughput":null,"skew":0.0,"lowest_loss":null},"truth":null}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":9.0,"partner":[],"sharing":null}}','[]');
INSERT INTO "entries" VALUES(8,9.0,'{"time":9.0,"events":[{"type":"submitted","time":9.0,"number":4,"spec":{"id":"4","submit_time":9.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"bob","pool":"","name":"","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":60.0,"throughput":null,"skew":0.0,"lowest_loss":null},"truth":null},{"type":"submitted","time":9.0,"number":5,"spec":{"id":"5","submit_time":9.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"bob","pool":"","name":"","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":60.0,"throughput":null,"skew":0.0,"lowest_loss":null},"truth":null},{"type":"submitted","time":9.0,"number":6,"spec":{"id":"6","submit_time":9.0,"gpus":1.0,"min_gpus":null,"max_gpus":null,"gpu_types":[],"cpus":0.0,"memory_gb":0.0,"user":"bob","pool":"","name":"","job_class":"best-effort","rewards":[],"weight":1.0,"preemptible":true,"checkpoint_seconds":null,"restore_seconds":null,"max_retries":3,"estimate_seconds":60.0,"throughput":null,"skew":0.0,"lowest_loss":null},"truth":null},{"type":"wake-up","time":9.0}],"decision":{"job":[1,2,3,4,5,6],"gpus":[0.0,0.0,1.0,1.0,1.0,1.0],"gpu_type":[-1,-1,0,0,0,0],"attempt":[1,1,1,1,1,1],"slot_offsets":[0,0,0,1,2,3,4],"slots":[0,1,2,3],"rejected":[],"concluded":[],"wake_at":12.0,"partner":[],"sharing":null}}','[]');
INSERT INTO "entries" VALUES(9,10.0,'{"time":10.0,"events":[{"type":"stopped","time":10.0,"number":1,"attempt":1,"work_done":12.0},{"type":"stopped","time":10.0,"number":2,"attempt":1,"work_done":6.0},{"type":"node","time":10.0,"name":"node-1","state":"draining","node":null},{"type":"held","time":10.0,"number":2},{"type":"cancelled","time":10.0,"number":4}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":12.0,"partner":[],"sharing":null}}','[{"type":"drained","name":"node-1","drained":true},{"type":"attempt-ended","number":1,"attempt":1,"outcome":"stopped","exit_code":null,"reason":"","iterations":6,"saved_iterations":6},{"type":"attempt-ended","number":2,"attempt":1,"outcome":"stopped","exit_code":null,"reason":"","iterations":4,"saved_iterations":4}]');
INSERT INTO "entries" VALUES(10,10.0,'{"time":10.0,"events":[{"type":"started","time":10.0,"number":3,"attempt":1,"start":10.0},{"type":"started","time":10.0,"number":5,"attempt":1,"start":10.0},{"type":"started","time":10.0,"number":6,"attempt":1,"start":10.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":12.0,"partner":[],"sharing":null}}','[{"type":"attempt-started","number":3,"attempt":1},{"type":"attempt-started","number":5,"attempt":1},{"type":"attempt-started","number":6,"attempt":1}]');
INSERT INTO "entries" VALUES(11,12.0,'{"time":12.0,"events":[{"type":"wake-up","time":12.0}],"decision":{"job":[],"gpus":[],"gpu_type":[],"attempt":[],"slot_offsets":[],"slots":[],"rejected":[],"concluded":[],"wake_at":15.0,"partner":[],"sharing":null}}','[]');
CREATE TABLE header (
	one INTEGER NOT NULL, 
	epoch DOUBLE NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (one)
);
INSERT INTO "header" VALUES(0,1000000.0,'{"volvelle":"test","cluster":{"nodes":[{"name":"node-0","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null},{"name":"node-1","gpus":2,"gpu_type":"","cpus":0.0,"memory_gb":0.0,"bandwidth_gbps":null}],"pools":[],"changes":[],"failures":null},"composition":{"policy":"las:round=3","placement":"first-free","admission":"accept-all","estimator":"measured","termination":"completion"},"overheads":{},"seed":0,"format":1}');
CREATE TABLE jobs (
	number BIGINT NOT NULL, 
	user VARCHAR(200) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	position INTEGER NOT NULL, 
	request TEXT NOT NULL, 
	submitted DOUBLE NOT NULL, 
	foreseen DOUBLE, 
	promised_p50 DOUBLE, 
	promised_p90 DOUBLE, 
	state VARCHAR(20), 
	reason TEXT, 
	ended DOUBLE, 
	picture TEXT, 
	PRIMARY KEY (number)
);
INSERT INTO "jobs" VALUES(0,'ada','of-2',0,'{"name":"of-2","command":["sleep","2"],"estimate":2.0}',1000002.0,NULL,NULL,NULL,'finished','',1000006.0,'{"number":0,"name":"of-2","user":"ada","state":"finished","gpus":1.0,"submitted":1000002.0,"request":{"name":"of-2","command":["sleep","2"],"estimate":2.0},"started":1000003.0,"first_started":1000003.0,"ended":1000006.0,"grants":[],"attempt":1,"preemptions":0,"failures":0,"reason":"","iterations":2,"saved_iterations":2,"total_iterations":2,"iteration_seconds":1.0,"metrics":{},"predicted_start":null,"predicted_p50":null,"predicted_p90":null,"promised":null}');
INSERT INTO "jobs" VALUES(1,'ada','of-9',0,'{"name":"of-9","command":["sleep","9"],"gpus":2,"estimate":9.0}',1000003.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(2,'ada','of-30',0,'{"name":"of-30","command":["sleep","30"],"gpus":2,"estimate":30.0}',1000006.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'ada','of-30',0,'{"name":"of-30","command":["sleep","30"],"estimate":30.0}',1000008.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'bob','',0,'{"command":["sleep","60"],"estimate":60.0,"array":3}',1000009.0,NULL,NULL,NULL,'cancelled','cancelled',1000010.0,'{"number":4,"name":"","user":"bob","state":"cancelled","gpus":1.0,"submitted":1000009.0,"request":{"command":["sleep","60"],"estimate":60.0,"array":3},"started":null,"first_started":null,"ended":1000010.0,"grants":[],"attempt":0,"preemptions":0,"failures":0,"reason":"cancelled","iterations":0,"saved_iterations":0,"total_iterations":0,"iteration_seconds":0.0,"metrics":{},"predicted_start":null,"predicted_p50":null,"predicted_p90":null,"promised":null}');
INSERT INTO "jobs" VALUES(5,'bob','',1,'{"command":["sleep","60"],"estimate":60.0,"array":3}',1000009.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(6,'bob','',2,'{"command":["sleep","60"],"estimate":60.0,"array":3}',1000009.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE submissions (
	user VARCHAR(200) NOT NULL, 
	"key" VARCHAR(200) NOT NULL, 
	first BIGINT NOT NULL, 
	count INTEGER NOT NULL, 
	PRIMARY KEY (user, "key")
);
INSERT INTO "submissions" VALUES('ada','key-2-1',0,1);
INSERT INTO "submissions" VALUES('ada','key-9-2',1,1);
INSERT INTO "submissions" VALUES('ada','key-30-2',2,1);
INSERT INTO "submissions" VALUES('ada','key-30-1',3,1);
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
INSERT INTO "writer" VALUES(0,'11f842604bd6aca630fbdea1ce4cac3b');
CREATE INDEX jobs_by_user ON jobs (user, number);
CREATE INDEX jobs_by_state ON jobs (state, number);
COMMIT;
