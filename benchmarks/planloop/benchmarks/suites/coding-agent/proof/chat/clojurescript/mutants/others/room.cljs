(ns room
  "Who is here, and what was said. A client is a function that sends it a text.")

(def clients (atom #{}))
(def said (atom []))

(defn join [client]
  (swap! clients conj client)
  (run! client @said))

(defn leave [client]
  (swap! clients disj client))

(defn say [client text]
  (swap! said conj text)
  (doseq [one @clients :when (not= one client)] (one text)))
