// What all parts of the page say in the same words and signs.

const OUTCOMES = {
  passed: { sign: "✓", word: "passed" },
  failed: { sign: "✕", word: "failed" },
  quarantined: { sign: "Q", word: "failed, in quarantine" },
  interrupted: { sign: "!", word: "interrupted" },
  unfinished: { sign: "…", word: "unfinished: the run was killed" },
  unchecked: { sign: "?", word: "unchecked: no check passed or failed" },
  "not started": { sign: "–", word: "not started" },
  "not run": { sign: "", word: "not run" },
};
const BLAMES = { product: "P", infra: "I", harness: "H", user: "U" };
const ENDED_BADLY = new Set(["failed", "interrupted", "unfinished", "unchecked"]);

/** Return the sign of a result: a failure shows whose it is. */
function signOf(result) {
  if (result.outcome === "failed" && BLAMES[result.blame]) return BLAMES[result.blame];
  const sign = (OUTCOMES[result.outcome] || { sign: "?" }).sign;
  return result.outcome === "passed" && result.attempts > 1 ? `${sign}${result.attempts}` : sign;
}

/** Return a result in words. */
function wordsOf(result) {
  const word = (OUTCOMES[result.outcome] || { word: result.outcome }).word;
  const whose = result.blame && result.outcome !== "passed" ? ` (${result.blame})` : "";
  const again = result.attempts > 1 && result.outcome !== "not run" ? `, at attempt ${result.attempts}` : "";
  return word + whose + again;
}

/** Return the class that colours a result. */
function classOf(result) {
  const outcome = result.outcome in OUTCOMES ? result.outcome.replace(" ", "-") : "unknown";
  const blame = result.outcome === "failed" && result.blame in BLAMES ? ` b-${result.blame}` : "";
  return `o-${outcome}${blame}${result.attempts > 1 ? " again" : ""}`;
}

/** Return seconds as a person reads them. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.round(seconds) % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** Return hours as a person reads them: "20 minutes", "6 hours", "2 days 4 hours". */
function span(hours) {
  if (hours < 1) return plural(Math.max(0, Math.round(hours * 60)), "minute");
  const whole = Math.floor(hours);
  if (whole < 48) return plural(whole, "hour");
  const rest = whole < 168 ? whole % 24 : 0; // after a week hours say nothing
  return plural(Math.floor(whole / 24), "day") + (rest ? ` ${plural(rest, "hour")}` : "");
}

/** Return what the report's columns are called: runs, where a person began one of them by hand. */
function unitOf(report) {
  return report.unit || "night";
}

function plural(number, what, many = `${what}s`) {
  return `${number} ${number === 1 ? what : many}`;
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", timeZone: "UTC" });
const MONTH = new Intl.DateTimeFormat("en-GB", { month: "short", timeZone: "UTC" });
const DATE = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const SHORT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const SHORT_YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

/** Return a night's date; with the time where the date alone does not say which it is. */
function dateOf(night) {
  return DATE.format(night.date) + timeOf(night);
}

function shortDateOf(night) {
  return shortDate(night.date) + timeOf(night);
}

/** Return a day and its month, and its year unless that is the reader's. */
function shortDate(date) {
  return (isThisYear(date) ? SHORT : SHORT_YEAR).format(date);
}

/** Return a month, and its year unless that is the reader's. */
function monthOf(date) {
  return isThisYear(date) ? MONTH.format(date) : `${MONTH.format(date)} ${date.getUTCFullYear()}`;
}

function isThisYear(date) {
  return date.getUTCFullYear() === new Date().getUTCFullYear();
}

function timeOf(night) {
  return night.shared ? `, ${TIME.format(night.at)}` : "";
}

function momentOf(night) {
  return `${DATE.format(night.date)}, ${TIME.format(night.date)} UTC`;
}

function short(commit) {
  return commit ? commit.slice(0, 8) : "unknown";
}
