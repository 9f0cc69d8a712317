(ns frames
  "The server's side of RFC 6455: text messages, whole or in pieces, pings, and the end."
  (:require ["crypto" :refer [createHash]]))

(def guid "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")

(defn accept [key]
  (-> (createHash "sha1") (.update (str key guid)) (.digest "base64")))

(defn frame [opcode payload]
  (let [size (.-length payload)
        head (cond
               (< size 126) (js/Buffer.from #js [(bit-or 0x80 opcode) size])
               (< size 65536) (doto (js/Buffer.from #js [(bit-or 0x80 opcode) 126 0 0]) (.writeUInt16BE size 2))
               :else (doto (js/Buffer.from #js [(bit-or 0x80 opcode) 127 0 0 0 0 0 0 0 0]) (.writeUInt32BE size 6)))]
    (js/Buffer.concat #js [head payload])))

(defn text-frame [text]
  (frame 1 (js/Buffer.from text)))

(defn take-frame
  "The first whole frame of a buffer with what is left of it; nil when there is none."
  [buffer]
  (when (>= (.-length buffer) 2)
    (let [short (bit-and 0x7f (.readUInt8 buffer 1))
          start (case short 126 4 127 10 2)]
      (when (>= (.-length buffer) (+ start 4))
        (let [size (case short 126 (.readUInt16BE buffer 2) 127 (.readUInt32BE buffer 6) short)
              end (+ start 4 size)]
          (when (>= (.-length buffer) end)
            (let [mask (.subarray buffer start (+ start 4))
                  payload (js/Buffer.from (.subarray buffer (+ start 4) end))
                  first-byte (.readUInt8 buffer 0)]
              (dotimes [i size]
                (aset payload i (bit-xor (aget payload i) (aget mask (mod i 4)))))
              {:opcode (bit-and 0x0f first-byte)
               :last? (bit-test first-byte 7)
               :payload payload
               :left (.subarray buffer end)})))))))

(defn listen! [stream on-text]
  (let [buffer (atom (js/Buffer.alloc 0))
        pieces (atom [])
        handle (fn [{:keys [opcode last? payload]}]
                 (case opcode
                   (0 1) (do (swap! pieces conj payload)
                             (when last?
                               (let [text (.toString (js/Buffer.concat (into-array @pieces)))]
                                 (reset! pieces [])
                                 (on-text text))))
                   9 (.write stream (frame 10 payload))
                   8 (.end stream (frame 8 payload))
                   nil))]
    (.on stream "data"
         (fn [data]
           (swap! buffer (fn [before] (js/Buffer.concat #js [before data])))
           (loop []
             (when-let [found (take-frame @buffer)]
               (reset! buffer (:left found))
               (handle found)
               (recur)))))))
