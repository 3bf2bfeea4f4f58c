import { ConnectionState } from '../../../../lib/redis/connection/connection-state.js';

const start = () => new ConnectionState();
const SENTINELS = 'All sentinels are unreachable. Retrying from scratch after 50ms.';

describe('the state of a connection', () => {
  it('reports a reason once, until it changes or the connection was up', () => {
    const state = start();
    const told = ['refused', 'refused', 'reset', 'refused'].map((text) => state.onError(new Error(text)));
    state.onReady();
    expect([...told, state.onError(new Error('refused'))]).toEqual(['refused', null, 'reset', 'refused', 'refused']);
  });

  it('has a reason even when a server accepts connections and does not answer', () => {
    const state = start();
    state.onConnecting();
    state.onClose();
    expect(state).toMatchObject({ losses: 1, isDown: true, lastError: { message: expect.stringContaining('ready') } });
    state.onReady();
    state.onClose();
    expect(state).toMatchObject({ losses: 2, isDown: true, lastError: undefined });
  });

  it('takes no command that a library has lost with the connection for the reason', () => {
    const state = start();
    state.onConnecting();
    const lost = Object.assign(new Error('Reached the max retries per request limit'), {
      name: 'MaxRetriesPerRequestError',
    });
    expect(state.onError(lost)).toBeNull();
    state.onClose();
    expect(state).toMatchObject({ isDown: true, lastError: { message: expect.stringContaining('ready') } });
  });

  it('counts as lost when no sentinel knows a master', () => {
    const state = start();
    state.onConnecting();
    expect(state.onError(new Error(`${SENTINELS} Last error: ERR No such master`))).toBe(
      'All sentinels are unreachable. Last error: ERR No such master',
    );
    expect(state).toMatchObject({ losses: 1, isDown: true });
  });

  it('keeps the reason why the master could not be reached, which the sentinels know', () => {
    const state = start();
    state.onConnecting();
    state.onError(new Error('connect ECONNREFUSED 127.0.0.1:1'));
    state.onClose();
    expect(state.onError(new Error(SENTINELS))).toBeNull();
    expect(state).toMatchObject({ losses: 1, lastError: { message: 'connect ECONNREFUSED 127.0.0.1:1' } });
  });
});
