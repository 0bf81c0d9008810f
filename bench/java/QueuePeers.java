import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Exchanger;
import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.Phaser;

/**
 * The peers of the queue rows. Loops look alike but are not shared: a call site
 * that sees three classes is no longer inlined, and Java would look slower than it is.
 */
final class QueuePeers {
    /** Made once: the queue is measured, not the making of items. */
    private static final Object ITEM = new Object();
    private static final Object LAST_ITEM = new Object();

    private static final long NONE = -1;
    /** The leading side announces it before that meeting, the other side looks after each. */
    private static volatile long lastMeeting;

    static Map<String, Peers.Row> rows() {
        LinkedTransferQueue<Object> queue = new LinkedTransferQueue<>();
        CyclicBarrier barrier = new CyclicBarrier(2);
        Exchanger<Object> exchanger = new Exchanger<>();
        Phaser phaser = new Phaser(2);
        return Map.of(
            "unbounded", length -> Peers.together(length, () -> put(queue), () -> take(queue)),
            "transfer", length -> Peers.together(length, () -> transfer(queue), () -> take(queue)),
            "barrier", length -> meet(length, () -> trip(barrier, true), () -> trip(barrier, false)),
            "exchanger", length -> meet(length, () -> exchange(exchanger, true), () -> exchange(exchanger, false)),
            "phaser", length -> meet(length, () -> advance(phaser, true), () -> advance(phaser, false)));
    }

    private static long put(LinkedTransferQueue<Object> queue) {
        long items = 0;
        do {
            queue.put(ITEM);
            items++;
        } while (!Peers.stop);
        queue.put(LAST_ITEM);
        return items;
    }

    private static long transfer(LinkedTransferQueue<Object> queue) throws Exception {
        long items = 0;
        do {
            queue.transfer(ITEM);
            items++;
        } while (!Peers.stop);
        queue.transfer(LAST_ITEM);
        return items;
    }

    private static long take(LinkedTransferQueue<Object> queue) throws Exception {
        while (queue.take() != LAST_ITEM) {}
        return 0;
    }

    private static double meet(long length, Peers.Side leading, Peers.Side following) throws Exception {
        lastMeeting = NONE;
        return Peers.together(length, leading, following);
    }

    private static long trip(CyclicBarrier barrier, boolean leads) throws Exception {
        long number = 0;
        do {
            announceLast(leads, number);
            barrier.await();
        } while (lastMeeting != number++);
        return counted(leads, number);
    }

    private static long exchange(Exchanger<Object> exchanger, boolean leads) throws Exception {
        long number = 0;
        do {
            announceLast(leads, number);
            exchanger.exchange(ITEM);
        } while (lastMeeting != number++);
        return counted(leads, number);
    }

    private static long advance(Phaser phaser, boolean leads) {
        long number = 0;
        do {
            announceLast(leads, number);
            phaser.arriveAndAwaitAdvance();
        } while (lastMeeting != number++);
        return counted(leads, number);
    }

    private static void announceLast(boolean leads, long number) {
        if (leads && Peers.stop) {
            lastMeeting = number;
        }
    }

    /** A meeting has two sides and counts once. */
    private static long counted(boolean leads, long meetings) {
        return leads ? meetings : 0;
    }
}
