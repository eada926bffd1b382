"""Lines of ``slurm.conf``: their parameters as Slurm spells them, and remarks on those that are not heeded.

Slurm reads names of parameters whatever their case. Source of the names: the table by which 22.05.8 reads its
file, which has some that slurm.conf(5) lacks; those of newer versions from memory.
"""

import re
from collections.abc import Iterator, Mapping

from volvelle.model.problems import nearest

CLUSTER = """
AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
AccountingStorageLoc AccountingStorageParameters AccountingStoragePass AccountingStoragePort
AccountingStorageTRES AccountingStorageType AccountingStorageUser AccountingStoreFlags
AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType
AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage
AuthAltParameters AuthAltTypes AuthInfo AuthType BackupAddr BackupController BatchStartTimeout BcastExclude
BcastParameters BurstBufferParameters BurstBufferType CacheGroups CertgenParameters CertgenType
CertmgrParameters CertmgrType CheckpointType CliFilterParameters CliFilterPlugins ClusterName
CommunicationParameters CompleteWait ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef CpuFreqGovernors
CredType CryptoType DataParserParameters DebugFlags DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
DependencyParameters DisableRootJobs DownNodes EioTimeout EnforcePartLimits Epilog EpilogMsgTime
EpilogSlurmctld EpilogTimeout ExtSensorsFreq ExtSensorsType FairShareDampeningFactor FastSchedule
FederationParameters FirstJobId FrontendName GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce
GroupUpdateTime HashPlugin HealthCheckInterval HealthCheckNodeState HealthCheckProgram HttpParserType
InactiveLimit Include InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType
JobCheckpointDir JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPassScript JobCompPort JobCompType
JobCompUser JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate JobFileAppend JobRequeue
JobSubmitPlugins KeepAliveTime KillOnBadExit KillWait LaunchParameters LaunchType Layouts Licenses
LogTimeFormat MailDomain MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU
MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode MCSParameters MCSPlugin MemLimitEnforce
MessageTimeout MetricsType MinJobAge MpiDefault MpiParams MsgAggregationParams NamespaceType
NodeFeaturesPlugins NodeName NodeSet OverTimeLimit PartitionName PluginDir PlugStackConfig PowerParameters
PowerPlugin PreemptExemptTime PreemptMode PreemptParameters PreemptType PrEpParameters PrEpPlugins
PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityParameters
PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod
PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog PrologEpilogTimeout PrologFlags
PrologSlurmctld PrologTimeout PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept
RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate
ResumeTimeout ResvEpilog ResvOverRun ResvProlog ReturnToService RoutePlugin SallocDefaultCommand
SbcastParameters SchedulerAuth SchedulerParameters SchedulerPort SchedulerRootFilter SchedulerTimeSlice
SchedulerType ScronParameters SelectType SelectTypeParameters SLURM_VERSION SlurmctldAddr SlurmctldDebug
SlurmctldHost SlurmctldLogFile SlurmctldParameters SlurmctldPidFile SlurmctldPlugstack SlurmctldPort
SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug
SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout
SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel SlurmUser SrunEpilog SrunPortRange SrunProlog
StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime
SuspendTimeout SwitchParameters SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TCPTimeout
TLSParameters TLSType TmpFS TopologyParam TopologyPlugin TrackWCKey TreeWidth UnkillableStepProgram
UnkillableStepTimeout UrlParserType UsePAM VSizeFactor WaitTime X11Parameters
"""
NODE = """
BcastAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs CpuSpecList Feature Features Gres MemSpecLimit
NodeAddr NodeHostname NodeName Parameters Port Procs RealMemory Reason RestrictedCoresPerGPU Sockets
SocketsPerBoard State ThreadsPerCore TmpDisk Topology TRESWeights Weight
"""
PARTITION = """
AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default DefaultTime DefCpuPerGPU
DefMemPerCPU DefMemPerGPU DefMemPerNode DenyAccounts DenyQos DisableRootJobs Exclusive ExclusiveTopo
ExclusiveUser GraceTime Hidden JobDefaults LLN MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode
MaxNodes MaxTime MinNodes Nodes OverSubscribe OverTimeLimit PartitionName PowerDownOnIdle PreemptMode Priority
PriorityJobFactor PriorityTier QoS ReqResv ResumeTimeout RootOnly SelectTypeParameters Shared State
SuspendTime SuspendTimeout Topology TRESBillingWeights
"""
_KNOWN: Mapping[str, Mapping[str, str]] = {
    first: {name.lower(): name for name in names.split()}
    for first, names in (("", CLUSTER), ("NodeName", NODE), ("PartitionName", PARTITION))
}
"""Parameters by their small letters: of the cluster, and of lines that begin with a name of others."""
_UNREAD = {
    "include": "the file that it includes is not read: put its lines in this place",
    "nodeset": "sets of nodes are not read: add the answer of 'scontrol -o show partition'",
}
_TYPO = 0.8
"""The likeness of a mistyped name; one that a newer Slurm has is less like those that are known."""


def lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, with their numbers; one that goes on behind ``\\`` has its first's."""
    begun, parts = 0, list[str]()
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        begun = begun if parts else number
        parts.append(raw.removesuffix("\\"))
        if not raw.endswith("\\"):
            if line := " ".join(parts).partition("#")[0].strip():
                yield begun, line
            parts.clear()


def values(line: str) -> dict[str, str]:
    """The parameters of a line by Slurm's spelling: all of a node's or partition's, or the cluster's one."""
    first, equals, rest = line.partition("=")
    first = spelled(first.strip())
    if not _KNOWN.get(first) or not equals:
        return {first: rest.strip()} if equals else {}
    pairs = re.findall(r'([^\s=]+)\s*=\s*("[^"]*"|\S*)', line)
    return {spelled(name, first): value.strip('"') for name, value in pairs}


def spelled(name: str, first: str = "") -> str:
    """A parameter in Slurm's spelling; as it is written where it is none."""
    return _KNOWN[first].get(name.lower(), name)


def unheeded(text: str, file: str) -> Iterator[str]:
    """Remarks on what a ``slurm.conf`` says and nothing here reads, with file and line."""
    for number, line in lines(text):
        found, place = values(line), f"{file}, line {number}"
        word = spelled(re.split(r"[\s=]", line, maxsplit=1)[0])
        if reason := _UNREAD.get(word.lower()):
            yield f"{place}: {word} is not heeded, {reason}."
        elif not found:
            yield f"{place}: {line[:60]!r} is not heeded: a line is written Key=Value."
        kind = word if word in _KNOWN else ""
        of = {"NodeName": " of a node", "PartitionName": " of a partition"}.get(kind, "")
        for name in found:
            if name.lower() not in _KNOWN[kind]:
                close = nearest(name, _KNOWN[kind].values(), _TYPO)
                yield (
                    f"{place}: {name!r} is no parameter{of} that is known here{close}; it is not heeded."
                )
