// Decides here what share to admit, from a state that NGINX has cached. Refuses on positive evidence only: an answer that is a state,
// a gate that enforces, a fraction below 1. Anything else is let through.

const LONGEST_S = 60, LONGEST_SPREAD_S = 30;

async function verdict(r) {
    const told = await pressure(r);
    if (!told || Math.random() < told.admit_ratio) {
        r.return(200);
        return;
    }
    const wait_s = drawn(told);
    r.headersOut['Retry-After'] = Math.ceil(wait_s).toString();
    r.headersOut['retry-after-ms'] = Math.ceil(wait_s * 1000).toString();
    r.headersOut['X-Backpressure-State'] = told.state;
    r.headersOut['X-Backpressure-Reason'] = told.ready === 0 ? 'no-capacity' : 'contended';
    if (told.retry_after_s >= LONGEST_S && told.objective !== 'completion') {
        r.headersOut['x-should-retry'] = 'false';
    }
    r.return(403);
}

// The state if it is one to refuse by, else null. The headers alone tell that of quiet times, without reading the body.
async function pressure(r) {
    try {
        const answer = await r.subrequest('/_backpressure/state'), headers = answer.headersOut;
        const acts = answer.status === 200 && headers['X-Backpressure-Gate'] === 'enforce';
        if (!acts || !(Number(headers['X-Backpressure-Admit']) < 1)) {
            return null;
        }
        const told = JSON.parse(answer.responseText);
        return told.admit_ratio >= 0 ? told : null;
    } catch (error) {
        r.error('backpressure: ' + error.message);
        return null;
    }
}

// Seconds within 1..60. All who are refused in one second would return in one second, so each is told another time within the spread.
function drawn(told) {
    const after_s = told.retry_after_s || 1, spread_s = told.retry_spread_s || 0;
    const high = Math.min(LONGEST_S, Math.max(1, after_s) + spread_s);
    const low = Math.max(1, Math.min(after_s, high - Math.min(spread_s, LONGEST_SPREAD_S)));
    return Math.min(high, low + Math.random() * (high - low));
}

export default { verdict };
