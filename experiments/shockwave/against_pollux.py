"""Pollux' jobs (section 8.7, appendix J, figures 11 and 17).

Pollux tunes batch sizes and GPUs of its own workload on 32 GPUs; Shockwave and its baselines then have the
same jobs at the batch sizes seen there, on as many GPUs as their users asked for (`pollux_jobs`). Beyond the
paper: Shockwave with ``elastic``, which chooses numbers of GPUs too, and AFS-L, which does nothing else.
"""

from pollux_jobs import as_traced, scheduled, sizes_under_pollux
from shockwave_study import (
    BASELINES,
    CSV_HEADS,
    FAIR,
    HEADS,
    Claim,
    Report,
    compared,
    lines,
    options,
    over,
    records,
    run,
)

CHOOSES, RULE = "Shockwave, elastic", "AFS-L"
ELASTIC = {CHOOSES: "shockwave:elastic=true", RULE: "afs-l:round=120"}
"""Policies that choose numbers of GPUs."""


def main() -> None:
    given = options(__doc__, "the 160 jobs of Pollux' first workload on 8 nodes of 4 GPUs, one run")
    report = Report("against_pollux", "Pollux' jobs (Shockwave, figures 11 and 17)", given)
    traced = as_traced(given)
    sizes = sizes_under_pollux(traced)
    fixed, elastic = (scheduled(traced, sizes, elastic=each) for each in (False, True))
    runs = compared(fixed, tuple(BASELINES))
    for name, policy in ELASTIC.items():
        runs[name] = run(elastic, policy, rigid=fixed.workload)
    runs["Pollux"] = run(traced, "pollux", rigid=fixed.workload)
    report.table(HEADS, lines(fixed.name, runs))
    own, pollux = runs["Shockwave"], runs["Pollux"]
    asked = sum(job.spec.gpus * job.seconds_on(job.spec.gpus) for job in fixed.workload.jobs)
    held = float(pollux.outcomes.gpu_seconds.sum())
    sooner = own.jct / pollux.jct
    longer = [100.0 * (runs[name].makespan / own.makespan - 1.0) for name in FAIR]
    alike = over(runs, "jct")
    report.claims(
        [
            Claim(
                "11: Pollux' mean JCT is 3 times less", f"{sooner:.1f} times less", sooner >= 3.0
            ),
            Claim(
                "11: Pollux needs 2.4 times fewer GPU hours",
                f"{asked / held:.1f} times fewer: {held / 3600:,.0f} instead of {asked / 3600:,.0f}",
                2.0 <= asked / held <= 3.0,
            ),
            Claim(
                "11: Shockwave is much fairer than Pollux",
                f"worst rho {own.worst:.2f}, Pollux' {pollux.worst:.2f}; above 1 {own.unfair:.1f} %, "
                f"Pollux' {pollux.unfair:.1f} %",
                own.worst < pollux.worst and own.unfair < pollux.unfair,
            ),
            Claim(
                "11: its makespan is like Pollux'",
                f"{own.makespan / pollux.makespan:.1f} times as long",
                own.makespan <= 1.1 * pollux.makespan,
            ),
            Claim(
                "17: makespans of Themis, Gavel and AlloX are 20 % longer",
                f"{', '.join(f'{name} {one:.0f} %' for name, one in zip(FAIR, longer, strict=True))}",
                min(longer) >= 15.0,
            ),
            Claim(
                "17: fairness and mean JCT against them are as on the other traces",
                f"their worst rhos {over(runs, 'worst'):.1f} times, their mean JCTs {alike:.2f} times",
                over(runs, "worst") >= 2.0 and alike >= 0.9,
            ),
        ]
    )
    earliest = asked / fixed.gpus
    report.say(
        "Rho is of the time alone on the GPUs that were asked for, also under Pollux, whose jobs have fewer. "
        f"On those that were asked for all jobs need {asked / 3600:,.0f} GPU hours, which {fixed.gpus} GPUs "
        f"have after {earliest:,.0f} s at the earliest: {earliest / pollux.makespan:.1f} times Pollux' "
        "makespan, under any policy that keeps the number of workers. For which cluster figure 11 was made "
        "the paper does not say."
    )
    chooses, rule = runs[CHOOSES], runs[RULE]
    report.say(
        f"The last three rows choose how many GPUs jobs have. With `elastic=true` Shockwave's makespan is "
        f"{own.makespan / chooses.makespan:.1f} times less than with the numbers asked for and its mean JCT "
        f"{own.jct / chooses.jct:.1f} times, {chooses.makespan / pollux.makespan:.2f} and "
        f"{chooses.jct / pollux.jct:.2f} times Pollux'; its worst rho is {chooses.worst:.2f}. So what the "
        "paper concedes to Pollux is for the fixed numbers of workers and not for the market. AFS-L, which "
        f"plans nothing and expects no batch sizes, has {rule.makespan / pollux.makespan:.2f} and "
        f"{rule.jct / pollux.jct:.2f} times Pollux'."
    )
    report.runs(CSV_HEADS, records(fixed.name, runs))
    report.close()


if __name__ == "__main__":
    main()
