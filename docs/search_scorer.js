// Pages before decisions, studies and notes on the source, whatever these hold more of a word.
var Scorer = {
  score: ([docname, , , , score]) => score - (/^docs\/decisions\//.test(docname) ? 100 : /^(experiments|src)\/|^CHANGELOG/.test(docname) ? 50 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
