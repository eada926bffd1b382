"""Names of columns and states that tables of jobs have, in English, German, French and Spanish.

Words are compared without case and accents, joined by ``_``.
"""

import re
import unicodedata

COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    ours: tuple(names.split())
    for ours, names in {
        "id": "id job_id jobid job job_number job_name app_id uuid task_id "
        "experiment_id run_id experiment run nr no request_id ticket ticket_id "
        "auftrag auftrag_id auftragsnummer kennung identifiant id_tache travail trabajo id_trabajo",
        "submit_time": "submit_time submit submitted submitted_at submission_time arrival arrival_time "
        "created created_at creation_time queued queued_at enqueued enqueued_at requested_on requested_at "
        "request_time timestamp time when date datum fecha "
        "eingereicht eingereicht_am einreichung einreichungszeit abgeschickt angelegt erstellt erstellt_am "
        "soumis soumission date_soumission heure_soumission cree enviado envio fecha_envio hora_envio creado",
        "gpus": "gpus gpu num_gpu num_gpus gpu_num gpu_count n_gpus ngpus gpu_request requested_gpus "
        "num_replicas workers scale_factor cards num_cards "
        "karten anzahl_karten anzahl_gpus anzahl_gpu gpu_anzahl grafikkarten nombre_gpu nombre_gpus "
        "numero_gpus cantidad_gpus",
        "duration": "duration runtime run_time elapsed elapsed_time execution_time length job_duration "
        "walltime wall_clock wall_clock_time wall_time time_used used_time wall seconds minutes hours "
        "dauer laufzeit rechenzeit minuten stunden duree temps_execution heures duracion horas",
        "start_time": "start_time start started started_at started_on begin begin_time began began_at "
        "gestartet gestartet_am startzeit beginn begonnen debut date_debut heure_debut demarre "
        "inicio iniciado fecha_inicio hora_inicio comienzo",
        "end_time": "end_time end ended ended_at finish finished finished_at finish_time completed "
        "completed_at stop stopped stopped_at stop_time completed_on completion completion_time done done_at "
        "beendet beendet_am ende endzeit fertig fin date_fin heure_fin termine fecha_fin hora_fin terminado",
        "user": "user owner user_name username user_id submitted_by requested_by requestor requester "
        "submitter who person "
        "wer benutzer benutzername nutzer anwender utilisateur nom_utilisateur usager usuario nombre_usuario",
        "gpu_type": "gpu_type gpu_types gpu_model gpu_name gpu_kind kind_gpu type_gpu model_gpu accelerator "
        "accelerator_type gpu_typ gpu_modell modele_gpu tipo_gpu modelo_gpu",
        "pool": "pool team squad account group research_group project department cost_center "
        "virtual_cluster vc gruppe abteilung projekt konto groupe projet equipe grupo proyecto equipo",
        "time_limit": "time_limit timelimit limit max_time max_runtime max_walltime requested_time "
        "requested_walltime zeitlimit limite_temps limite_tiempo",
        "estimate": "estimate est estimated estimated_time estimated_runtime expected_runtime",
        "deadline": "deadline due due_date due_at due_by due_time",
        "state": "state status job_state job_status final_state final_status exit_status outcome "
        "zustand etat statut estado",
    }.items()
}  # fmt: skip
"""Our columns, and what others call them, the commonest first."""

STATES: dict[str, str] = {
    word: state
    for state, words in {
        "completed": "completed complete done finished succeeded success successful ok pass passed "
        "abgeschlossen erfolgreich fertig beendet termine terminee reussi reussie succes "
        "completado completada terminado terminada finalizado exitoso",
        "failed": "failed fail failure error errored crashed "
        "fehlgeschlagen fehler gescheitert echoue echouee echec erreur fallido fallida fallo",
        "cancelled": "cancelled canceled cancel killed aborted stopped deleted "
        "abgebrochen storniert gestoppt annule annulee arrete cancelado cancelada",
        "running": "running active lauft laufend en_cours ejecutando en_ejecucion",
        "waiting": "waiting pending queued wartend wartet en_attente pendiente en_espera",
    }.items()
    for word in words.split()
}
"""Names of the states of jobs in other systems, and our word for each."""

_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
_FILLERS = frozenset(
    (
        "of",
        "the",
        "no",
        "nr",
        "am",
        "der",
        "von",
        "de",
        "du",
        "des",
        "la",
        "le",
        "hh",
        "mm",
        "ss",
        "ts",
    )
)


def words_of(text: str) -> list[str]:
    """The words in lower case without accents: ``JobName`` and ``job_name`` have the same two."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore")
    return [word.lower() for word in _WORD.findall(plain.decode())]


def joined(words: list[str]) -> str:
    """The words as in the tables here, without those that say nothing."""
    return "_".join(word for word in words if word not in _FILLERS)
